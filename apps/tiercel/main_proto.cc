#include <fmt/format.h>
#include <cstdlib>
#include <cstring>
#include "apps/tiercel/commands.h"
#include "placement/read_placement.h"
#include "replay/replay_run.h"
#include "trace/read_trace.h"
using namespace tiercel;
int main(int argc,char**argv){
  std::string cmd=argv[1];
  if(cmd=="cache"){ app::TraceCacheArgs a; a.source.path=argv[2]; a.source.every=atoi(argv[3]); a.policies={"lru","fifo","opt"}; a.blocks={1000,10000,30000,50000,100000}; return app::run_trace_cache(a);}
  if(cmd=="tiers"){ app::TraceTiersArgs a; a.source.path=argv[2]; a.source.every=atoi(argv[3]); a.hot_blocks=atoi(argv[4]); a.warm_blocks=atoi(argv[5]); return app::run_trace_tiers(a);}
  std::vector<std::string> sets(argv+4,argv+argc);
  auto t=read_trace(argv[3],{}); if(!t){fmt::print("{}\n",t.error().what);return 2;}
  auto p=read_placement(argv[2],sets); if(!p){fmt::print("{}\n",p.error().what);return 2;}
  auto s=scale_placement(*p,0); if(!s){fmt::print("{}\n",s.error().what);return 2;}
  auto keys=trace_keys(*t,p->model.block_tokens);
  SimulatedExecutor ex;
  auto o=run_replay(*p,*s,*t,keys,ex,{}); if(!o){fmt::print("{}\n",o.error().what);return 2;}
  int rej=0,pre=0,tl=0; for(auto&r:o->requests){rej+=r.fate==Fate::rejected;tl+=r.fate==Fate::too_large;pre+=r.preemptions;}
  fmt::print("rej {} pre {} too_large {} hits {}/{}/{} miss {} skipped st {} par {} sp {} storedw {} storedc {} moved {} evc {} recl {} lookups {} wall {:.3f} rate {:.2f}M {}\n",rej,pre,tl,o->hits.hot,o->hits.warm,o->hits.cold,o->miss,o->skipped_staging,o->skipped_parent,o->skipped_space,o->stored_warm,o->stored_cold,o->moved_cold,o->evicted_cold,o->reclaims,o->lookups,o->wall_s,o->lookups/o->wall_s/1e6,o->decisions_sha256.substr(0,16));
}
